"""The in-tree plugins: a module or package for each, or for several that are alike. What they share is in `shared/`."""
