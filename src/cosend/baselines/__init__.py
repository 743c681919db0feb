"""What we are compared with.

Baselines that choose among functions take `values[item, function]`, what each function is worth for each item, and
return which one they pick for every item. Those that combine functions return labels.
"""
