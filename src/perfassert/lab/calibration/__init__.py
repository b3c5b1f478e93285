"""Device files from measurements: micro-benchmarks on a GPU, fits, and the file that they yield."""
