"""The one place where descriptions and engines meet: kernel + launch + device → prediction."""

from perfassert.predictor.predict import access_costs, predict

__all__ = ["access_costs", "predict"]
