"""InterPodAffinity: pods that must or should run near other pods, or away from them."""
