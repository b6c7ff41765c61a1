"""The version, which `packaging/release` holds against the workspace's."""

__version__ = "0.1.0"
