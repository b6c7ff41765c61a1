"""Figures between two hosts, here network namespaces, with their lower bounds."""
