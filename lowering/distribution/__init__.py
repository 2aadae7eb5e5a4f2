"""Programs on many devices: what `tensorir.distribution` says, as `shard_map`, permutes and sums over mesh axes."""
