"""The table of nodes: a row per node, a column per fact."""
