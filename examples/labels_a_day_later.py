"""Route a table of orders every day with pandas, and learn from the labels of the day before; some are missing.

With polars, pass `orders.to_dicts()` instead of the table.
It prints, day by day, how many orders were labelled correctly by the site and by each model alone.

    python examples/labels_a_day_later.py
"""

import numpy as np
import pandas as pd

from cosend import Patience, Site, axes

RULES = {"small": lambda order: order["amount"] > 60, "bulk": lambda order: order["amount"] > 600}  # is it fraud?
draw = np.random.default_rng(1)


def orders_of_a_day():
    """Return 400 orders, and for each whether it turns out to be fraud."""
    table = pd.DataFrame({"items": draw.integers(1, 40, 400)})
    table["amount"] = (table["items"] * draw.gamma(4, 8, 400)).round(2)
    return table, table["amount"] > np.where(table["items"] < 10, 60, 600)


site = Site(
    "shop",
    classifiers=RULES,
    context=axes.Feature("items", range=(0, 40)),
    patience=Patience(wait_limit=2_000),  # in orders: labels that are later than five days do not come
)
yesterday = None
for day in range(1, 8):
    orders, fraud = orders_of_a_day()
    orders["id"], orders["said"] = zip(*((each.id, each.label) for each in site.classify_many(orders)), strict=True)
    if yesterday is not None:  # labels arrive as a table, in another order, and one in ten is missing
        labels = yesterday.sample(frac=1, random_state=day)
        site.learn_many(labels["id"], labels["fraud"])
    yesterday = pd.DataFrame({"id": orders["id"], "fraud": fraud.astype(object).where(draw.random(400) > 0.1)})
    alone = {name: (orders["amount"] > limit) for name, limit in (("small", 60), ("bulk", 600))}
    shares = {"cosend": orders["said"], **alone}
    print(f"day {day}:", ", ".join(f"{name} {(said == fraud).mean():.1%}" for name, said in shares.items()))
print(site)
