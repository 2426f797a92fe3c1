"""The plugins that a configuration can name: how they are found, checked, and made into profiles."""
