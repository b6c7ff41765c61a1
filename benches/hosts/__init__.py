"""Figures between two hosts, which are network namespaces here, with their floors."""
