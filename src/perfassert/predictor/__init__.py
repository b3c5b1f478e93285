"""The one place where descriptions and engines meet: kernel + launch + device → prediction."""
