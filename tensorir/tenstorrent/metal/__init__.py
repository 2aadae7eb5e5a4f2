"""Programs in the calls of Tenstorrent's own library, tt-metal: kernels, host and plan, within the limits of a card."""
