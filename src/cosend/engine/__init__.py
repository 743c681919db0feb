"""Everything that happens to an item at a site, written once: opinions, context, choice, retries, labels, teaching.

May import: algorithm, axes, checks, errors, models, text, version.
Touches: of the user's code only rewards, axes and `==` between labels.
"""
