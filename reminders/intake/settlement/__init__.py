"""Reconciliation: a provider's settlement files against the application's orders, and what follows from it."""
