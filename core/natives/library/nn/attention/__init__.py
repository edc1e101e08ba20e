"""torch.nn.attention: what it has can be named."""
