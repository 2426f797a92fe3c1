"""VolumeBinding: claims that are bound where the pod runs, or must be bound before it does."""
