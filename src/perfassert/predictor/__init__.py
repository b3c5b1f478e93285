"""The one place where descriptions and engines meet: kernel + launch + device → prediction."""

from perfassert.predictor.diagnose import advise_measured as advise
from perfassert.predictor.line_costs import LineCost, line_costs
from perfassert.predictor.predict import access_costs, predict, single_dependencies
from perfassert.predictor.timeline import timeline, timeline_data

__all__ = [
    "LineCost",
    "access_costs",
    "advise",
    "line_costs",
    "predict",
    "single_dependencies",
    "timeline",
    "timeline_data",
]
