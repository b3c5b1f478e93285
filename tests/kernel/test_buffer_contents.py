"""Tests of the contents of buffers: arrays, files, generators."""

import numpy as np
import pytest

import perfassert as pa
from perfassert.kernel.contents import contents


def made(fill, shape=1000, names=None, **more):
    return contents(pa.Buffer(shape, fill=fill, **more), names)


def test_generators_make_what_they_say():
    assert set(made("random(0, 7)")) == set(range(7))
    assert sorted(made("permutation")) == list(range(1000))
    ordered = made("sorted random(-5, 100)")
    assert (np.diff(ordered) >= 0).all()
    assert ordered.min() >= -5
    assert ordered.max() < 100
    assert (made("arange % 7") == np.arange(1000) % 7).all()
    assert (made("arange") == np.arange(1000)).all()
    assert (made("constant 3") == 3).all()
    assert made("constant 2.5", dtype="float64")[0] == 2.5


@pytest.mark.parametrize("skew", ["uniform", "power-law", "banded"])
def test_row_pointers_have_the_mean_that_is_asked_for(skew):
    rows = made(f"csr_rows(nnz_per_row=16, skew='{skew}')", 20_001)
    lengths = np.diff(rows)
    assert rows[0] == 0
    assert (lengths >= 0).all()
    assert lengths.mean() == pytest.approx(16, rel=0.05 if skew == "uniform" else 0)
    assert (lengths.max() > 200) == (skew == "power-law")
    assert (lengths.std() == 0) == (skew == "banded")


def test_a_generator_depends_on_its_seed_alone():
    assert (made("random(0, 1000)") == made("random(0, 1000)")).all()
    assert (made("random(0, 1000)", seed=1) != made("random(0, 1000)")).any()


@pytest.mark.parametrize("word", ["random(0, 50{})", "sorted random(0, 50{})", "permutation{}"])
def test_a_seed_in_the_text_is_the_seed(word):
    inside = word.format(", seed=3" if "(" in word else "(seed=3)")
    assert (made(inside) == made(word.format(""), seed=3)).all()
    rows = "csr_rows(nnz_per_row=16, skew='power-law'{})"
    assert (made(rows.format(", seed=3")) == made(rows.format(""), seed=3)).all()


def test_names_are_arguments_of_the_launch():
    assert made("random(0, n // 2)", names={"n": 8}).max() == 3
    with pytest.raises(pa.LaunchError, match="no integer argument 'm'"):
        made("random(0, m)", names={"n": 8})


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        ("randon(0, 3)", "did you mean 'random'"),
        ("random(3, 3)", "low < high"),
        ("random(0, __import__('os'))", "only integers"),
        ("random(0", "no generator"),
        ("sorted permutation", "only random"),
        ("arange % 0", "at least 1"),
        ("csr_rows(skew='odd', nnz_per_row=3)", "power-law"),
        ("constant x.", "not a number"),
        ("random(0, 2)(1)", "cannot be read"),
        ("random(0, n // m)", "n // m divides by zero"),
        ("permutation(seed=-1)", "seed must be an integer"),
        ("permutation(seed='a')", "seed must be an integer"),
    ],
)
def test_what_is_no_generator_is_refused(fill, said):
    with pytest.raises(pa.LaunchError, match=said):
        made(fill, names={"n": 8, "m": 0})


def test_data_gives_shape_and_type_and_is_what_the_array_holds_now():
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    buffer, digests = pa.Buffer(data=array), set()
    assert (buffer.shape, buffer.dtype) == ((2, 3), "int64")
    kept = buffer.freeze(lambda key, data: data.copy())
    for number in range(3):
        array[:] = number
        assert (contents(buffer) == number).all()
        digests.add(buffer.digest)
    assert len(digests) == 3
    assert (contents(kept) == np.arange(6)).all()
    with pytest.raises(ValueError, match="read-only"):
        buffer.data[0] = 1
    array[:] = np.arange(6).reshape(2, 3)
    assert buffer == kept == pa.Buffer(data=np.arange(6).reshape(2, 3))
    assert buffer != pa.Buffer(data=np.zeros((2, 3), np.int64))
    assert contents(pa.Buffer((4,))) is None


def test_arrays_in_a_launch_are_buffers():
    launch = pa.Launch(1, 32, args={"x": np.arange(4), "n": np.int64(3)})
    assert launch.args["x"] == pa.Buffer(data=np.arange(4))
    assert launch.args["n"] == 3


def test_files(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(5, dtype=np.int32))
    np.savez(tmp_path / "b.npz", rows=np.arange(3), columns=np.arange(4))
    assert contents(pa.Buffer(data=tmp_path / "a.npy")).tolist() == [0, 1, 2, 3, 4]
    assert pa.Buffer(data=f"{tmp_path}/b.npz:columns").shape == (4,)
    with pytest.raises(pa.LaunchError, match="rows, columns"):
        pa.Buffer(data=tmp_path / "b.npz")
    with pytest.raises(pa.LaunchError, match="npy"):
        pa.Buffer(data="x.txt")
    with pytest.raises(pa.LaunchError, match="cannot be read"):
        pa.Buffer(data=tmp_path / "none.npy")


def test_matrix_market_files_as_compressed_rows(tmp_path):
    path = tmp_path / "m.mtx"
    path.write_text(
        "%%MatrixMarket matrix coordinate real symmetric\n% a comment\n3 3 4\n"
        "1 1 4.0\n3 1 -1.0\n2 2 5.0\n3 3 6.0\n"
    )
    parts = {
        p: contents(pa.Buffer(data=f"{path}:{p}")).tolist() for p in ("rows", "columns", "values")
    }
    assert parts == {"rows": [0, 2, 3, 5], "columns": [0, 2, 1, 0, 2],
                     "values": [4.0, -1.0, 5.0, -1.0, 6.0]}  # fmt: skip
    with pytest.raises(pa.LaunchError, match="rows, columns, values"):
        pa.Buffer(data=path)
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n")
    with pytest.raises(pa.LaunchError, match="states 2 entries and has 1"):
        pa.Buffer(data=f"{path}:rows")


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("real", "", "cannot be read"),
        ("real", "% nothing but a comment\n\n", "cannot be read"),
        ("real", "2 2 3\n", "states 3 entries and has 0"),
        ("real", "2 2 1\n3 1 1.0\n", "outside of 2 rows and 2 columns"),
        ("real", "2 2 1\n1 0 1.0\n", "outside of 2 rows and 2 columns"),
        ("complex", "2 2 1\n1 1 1.0 2.0\n", "complex"),
    ],
)
def test_a_matrix_that_is_not_whole_is_refused(tmp_path, kind, body, said):
    path = tmp_path / "m.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate {kind} general\n{body}")
    with pytest.raises(pa.LaunchError, match=said):
        pa.Buffer(data=f"{path}:rows")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"alignment": 0}, "alignment must be at least 1"),
        ({"alignment": 1.5}, "alignment must be an integer"),
        ({"offset": -4}, "offset must be at least 0"),
        ({"offset": "4"}, "offset must be an integer"),
        ({"fill": "permutation", "seed": -1}, "seed must be at least 0"),
        ({"fill": 5}, "fill is a text"),
        ({"alias": 0}, "alias is a text"),
    ],
)
def test_what_describes_no_buffer_is_refused(given, said):
    with pytest.raises(pa.LaunchError, match=said):
        pa.Buffer(4, **given)


def test_one_source_of_content_and_a_shape():
    with pytest.raises(pa.LaunchError, match="one of data, fill and alias"):
        pa.Buffer(3, data=np.zeros(3), fill="permutation")
    with pytest.raises(pa.LaunchError, match="needs a shape"):
        pa.Buffer(fill="permutation")
    with pytest.raises(pa.LaunchError, match="does not fit"):
        pa.Buffer((2, 2), data=np.zeros(3))
    with pytest.raises(pa.LaunchError, match="numbers, not Python objects"):
        pa.Buffer(data=np.array([None]))


@pytest.mark.parametrize(
    ("fill", "dtype", "beyond"),
    [
        ("arange", "uint8", "299"),
        ("random(-5, 300)", "uint8", "-"),
        ("constant 70000", "int16", "70000"),
        ("csr_rows(nnz_per_row=200)", "int8", ""),
    ],
)
def test_integers_that_the_type_does_not_hold_are_an_error(fill, dtype, beyond):
    with pytest.raises(pa.LaunchError, match=f"makes {beyond}.*{dtype} does not hold"):
        contents(pa.Buffer(300, dtype, fill=fill))
    assert len(contents(pa.Buffer(300, "int32", fill=fill))) == 300


@pytest.mark.parametrize("fill", ["constant 2.5", "constant -1.0"])
def test_fractions_that_the_type_does_not_hold_are_an_error(fill):
    with pytest.raises(pa.LaunchError, match="makes .*, which uint8 does not hold"):
        contents(pa.Buffer(3, "uint8", fill=fill))


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        (np.arange(-2, 3).astype(">i4"), None, [-2, -1, 0, 1, 2]),
        (np.arange(3).astype(">i2"), ">i8", [0, 1, 2]),
        (np.array([2**63]), "uint64", [2**63]),
        ([-128.0, 127.0], "int8", [-128, 127]),
        ([1, 0], "bool", [True, False]),
        ([True, False], "int32", [1, 0]),
        ([0.1, float("inf")], "float32", [float(np.float32(0.1)), float("inf")]),
        ([1.5], "complex64", [1.5]),
        ([], "int8", []),
    ],
)
def test_values_that_the_type_holds_are_converted(data, dtype, values):
    buffer = pa.Buffer(data=data, dtype=dtype)
    assert buffer.data.tolist() == values
    assert buffer.data.dtype.isnative
    assert buffer.dtype == str(buffer.data.dtype)


@pytest.mark.parametrize(
    ("data", "dtype", "message"),
    [
        (np.array([7, 2**40]), "int32", "data has 1099511627776, which int32 does not hold"),
        ([-1], "uint32", "data has -1, which uint32 does not hold"),
        ([2.0**63], "int64", "data has 9223372036854775808, which int64"),
        ([1.0, 1.5], "int32", "data has 1.5, which int32 does not hold"),
        ([float("nan")], "int32", "data has nan, which int32"),
        ([2], "bool", "data has 2, which bool"),
        ([1e300], "float32", "data has 1e[+]300, which float32"),
        ([1j], "float32", "elements of type complex128, which float32 does not hold"),
        (["a"], "int32", "holds numbers, not values of type <U1"),
        (["a"], None, "holds numbers, not values of type <U1"),
        ([1], "U3", "holds numbers, not values of type <U3"),
        ([1], "float17", "'float17' is no type that numpy knows"),
    ],
)
def test_values_that_the_type_does_not_hold_are_an_error(data, dtype, message):
    with pytest.raises(pa.LaunchError, match=message):
        pa.Buffer(data=data, dtype=dtype)


@pytest.mark.parametrize(("dtype", "size"), [("bfloat16", 2), ("float64", 8), ("int8", 1)])
def test_bytes_of_a_buffer(dtype, size):
    assert pa.Buffer((3, 5), dtype).bytes == 15 * size


def test_a_type_without_a_size_is_refused():
    with pytest.raises(pa.LaunchError, match="'float17' is no type that numpy knows"):
        _ = pa.Buffer(4, "float17").bytes
