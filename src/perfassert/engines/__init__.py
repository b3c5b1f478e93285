"""Description + launch + device → numbers. An engine knows no other engine."""
