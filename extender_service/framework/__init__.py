"""The plugin framework: extension points, registry, and the runtime that runs a profile."""
