"""Three river models that keep learning, and a router that learns online which of them to use for which item.

It prints the accuracy of each model alone and of the router, by river's own progressive validation.

    pip install river
    python examples/river_pipeline.py
"""

from river import datasets, evaluate, linear_model, metrics, multiclass, naive_bayes, preprocessing, tree

from cosend import axes
from cosend.river import RoutingClassifier


def models():
    return {
        "bayes": naive_bayes.GaussianNB(),
        "tree": tree.HoeffdingTreeClassifier(grace_period=50),
        "linear": preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    }


routing = RoutingClassifier(models(), context=axes.Feature("intensity-mean"))  # how bright this part of a picture is
for name, model in {**models(), "routing": routing}.items():
    accuracy = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    print(f"{name}: {accuracy}")
print(routing.site.summary())
