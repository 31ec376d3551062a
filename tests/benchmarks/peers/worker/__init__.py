"""What runs in a peer's own environment: the standard library, the peer, and this package."""
