"""How sites reach each other: within one process, or over NATS."""
