"""NodeResourcesFit and NodeResourcesBalancedAllocation: what pods request of what nodes offer."""
