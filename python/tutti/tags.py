"""What scikit-learn asks an estimator about itself, from its version 1.6 on."""
from __future__ import annotations

from typing import Any, Optional


def tags(kind: Optional[str]) -> Any:
    """Tags of a regressor, a classifier, or (None) neither."""
    from sklearn import utils

    made = utils.Tags(estimator_type=kind, target_tags=utils.TargetTags(required=True),
                      input_tags=utils.InputTags(), non_deterministic=False)
    if kind == "classifier":
        made.classifier_tags = utils.ClassifierTags()
    else:
        made.regressor_tags = utils.RegressorTags()
        made.target_tags.multi_output = True
    return made
