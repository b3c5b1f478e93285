"""The one place where descriptions and engines meet: kernel + launch + device → prediction."""

from perfassert.predictor.diagnose import advise_measured as advise
from perfassert.predictor.predict import access_costs, predict

__all__ = ["access_costs", "advise", "predict"]
