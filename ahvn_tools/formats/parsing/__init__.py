"""Reading what a provider's model answered."""
