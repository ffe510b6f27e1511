"""Adapters for frameworks, one module each. `import isocost` imports none of them."""
