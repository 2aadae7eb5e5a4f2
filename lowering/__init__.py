"""From the tensor IR to jax.lax."""
