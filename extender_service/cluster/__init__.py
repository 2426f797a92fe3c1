"""The state of the cluster that both programs decide on, as columns of node and pod facts."""
