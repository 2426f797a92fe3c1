"""What a plugin sees of the nodes, with pods added or taken away where the question says so."""
