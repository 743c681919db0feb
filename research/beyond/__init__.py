"""Beyond the paper: more windows, policies, delays, costs, changes and liars, and the best of the field beside us."""
