"""The rules of one site behind Python verbs: what goes in and out is checked here."""
