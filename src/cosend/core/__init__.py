"""The mathematics: context -> cell -> choice, quotas, ledger, bounds. No clock, no files, no network."""
