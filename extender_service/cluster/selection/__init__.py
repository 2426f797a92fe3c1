"""Which label sets a selector matches, and which selectors match a label set."""
