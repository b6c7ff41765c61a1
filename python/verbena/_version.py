"""The version. `packaging/release` checks it against that of the workspace."""

__version__ = "0.1.0"
