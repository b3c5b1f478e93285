"""PTX statements over ``%h`` (16 bits), ``%r`` (32), ``%d`` (64), ``%f``, ``%g`` and ``%p``."""

LETTER = {"16": "h", "32": "r", "64": "d"}
_BOUNDS = "and.b32 %r5, %r2, 63; and.b32 %r6, %r3, 63; "


def operations():
    """(result's register, statement); registers 1 to 3 hold numbers, 4 and 5 take results."""
    yield from _integers()
    yield from _fields_and_carries()
    yield from _words()
    yield from _packed()
    yield from _conversions()
    yield from _floats()


def _integers():
    for size, r in LETTER.items():
        both = [f"{sign}{size}" for sign in "us"]
        for kind in both:
            for name in ("add", "sub", "min", "max"):
                yield r, f"{name}.{kind} %{r}4, %{r}1, %{r}2;"
            yield r, f"mul.lo.{kind} %{r}4, %{r}1, %{r}2;"
            yield r, f"mul.hi.{kind} %{r}4, %{r}1, %{r}2;"
            yield r, f"mad.lo.{kind} %{r}4, %{r}1, %{r}2, %{r}3;"
            yield r, f"or.b{size} %{r}5, %{r}2, 1; div.{kind} %{r}4, %{r}1, %{r}5;"
            yield r, f"or.b{size} %{r}5, %{r}2, 1; rem.{kind} %{r}4, %{r}1, %{r}5;"
            yield r, f"and.b32 %r6, %r2, 127; shr.{kind} %{r}4, %{r}1, %r6;"
            yield "p", f"setp.le.{kind} %p4|%p5, %{r}1, %{r}2;"
            yield "p", f"setp.gt.and.{kind} %p4|%p5, %{r}1, %{r}2, !%p3;"
            yield r, f"selp.{kind} %{r}4, %{r}1, -7, %p1;"
        yield "p", f"setp.hs.or.u{size} %p4, %{r}1, 77, %p3;"
        yield r, f"neg.s{size} %{r}4, %{r}1;"
        yield r, f"abs.s{size} %{r}4, %{r}1;"
        for name in ("and", "or", "xor"):
            yield r, f"{name}.b{size} %{r}4, %{r}1, %{r}2;"
        yield r, f"not.b{size} %{r}4, %{r}1;"
        yield r, f"cnot.b{size} %{r}4, %{r}1;"
        yield r, f"and.b32 %r6, %r2, 127; shl.b{size} %{r}4, %{r}1, %r6;"


def _fields_and_carries():
    for size in ("32", "64"):
        r = LETTER[size]
        for kind in (f"u{size}", f"s{size}"):
            yield r, _BOUNDS + f"bfe.{kind} %{r}4, %{r}1, %r5, %r6;"
            yield r, f"add.cc.{kind} %{r}4, %{r}1, %{r}2; addc.{kind} %{r}5, %{r}3, %{r}1;"
            yield r, f"sub.cc.{kind} %{r}4, %{r}1, %{r}2; subc.{kind} %{r}5, %{r}3, %{r}1;"
            three = f"%{r}1, %{r}2, %{r}3"
            high = f"madc.hi.{kind} %{r}5, %{r}1, %{r}2, 0;"
            yield r, f"mad.lo.cc.{kind} %{r}4, {three}; {high}"
        yield r, f"bfi.b{size} %{r}4, %{r}1, %{r}2, 5, 9;"
        yield r, f"and.b32 %r5, %r3, 31; bfi.b{size} %{r}4, %{r}1, %{r}2, %r5, 20;"
        yield "r", f"clz.b{size} %r4, %{r}1;"
        yield "r", f"popc.b{size} %r4, %{r}1;"
        yield r, f"brev.b{size} %{r}4, %{r}1;"


def _words():
    for kind in ("u32", "s32"):
        yield "d", f"mul.wide.{kind} %d4, %r1, %r2;"
        yield "d", f"mad.wide.{kind} %d4, %r1, %r2, %d3;"
        yield "r", f"mad.hi.{kind} %r4, %r1, %r2, %r3;"
        yield "r", f"mul24.lo.{kind} %r4, %r1, %r2;"
        yield "r", f"mad24.lo.{kind} %r4, %r1, %r2, %r3;"
        yield "r", f"sad.{kind} %r4, %r1, %r2, %r3;"
        yield "r", f"bfind.{kind} %r4, %r1;"
        yield "r", f"bfind.shiftamt.{kind} %r4, %r1;"
        yield "r", f"set.lt.{kind}.{kind} %r4, %r1, %r2;"
    yield "r", "mul.wide.u16 %r4, %h1, %h2;"
    yield "r", "mul.wide.s16 %r4, %h1, %h2;"
    yield "r", "slct.u32.s32 %r4, %r1, %r2, %r3;"
    yield "r", "prmt.b32 %r4, %r1, %r2, 0x5170;"
    yield "r", "prmt.b32 %r4, %r1, %r2, %r3;"
    for table in (0x96, 0xE8, 0x1D):
        yield "r", f"lop3.b32 %r4, %r1, %r2, %r3, {table};"
    for way in "lr":
        yield "r", f"and.b32 %r5, %r3, 63; shf.{way}.wrap.b32 %r4, %r1, %r2, %r5;"
        yield "r", f"and.b32 %r5, %r3, 63; shf.{way}.clamp.b32 %r4, %r1, %r2, %r5;"
    for a, b in (("s32", "s32"), ("u32", "s32"), ("u32", "u32")):
        yield "r", f"dp4a.{a}.{b} %r4, %r1, %r2, %r3;"


def _packed():
    yield "d", "mov.b64 %d4, {%r2, %r1};"
    yield "r", "mov.b64 {%r4, %r5}, %d1;"
    yield "r", "mov.b32 %r4, {%h2, %h1};"
    yield "h", "mov.b32 {_, %h4}, %r1;"
    yield "d", "mov.b64 %d4, {%h1, %h2, %h3, %h1};"
    yield "p", "and.pred %p4, %p1, %p2; xor.pred %p5, %p2, %p3;"
    yield "p", "not.pred %p4, %p1; or.pred %p5, %p1, !%p2;"
    yield "r", "@%p1 mov.u32 %r4, 9; @!%p1 mov.u32 %r5, 8;"
    yield "r", ".reg .b32 t; add.u32 t, %r1, 3; xor.b32 %r4, t, %r2;"


def _conversions():
    for target in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        register = LETTER.get(target[1:], "h")
        for source in ("u16", "s16", "u32", "s32", "u64", "s64"):
            yield register, f"cvt.{target}.{source} %{register}4, %{LETTER[source[1:]]}1;"
    for whole in ("u32", "s32", "u64", "s64"):
        r = LETTER[whole[1:]]
        for real in ("f32", "f64"):
            f = "f" if real == "f32" else "g"
            yield f, f"cvt.rn.{real}.{whole} %{f}4, %{r}1;"
            for rounding in ("rni", "rzi", "rmi", "rpi"):
                yield r, f"cvt.{rounding}.{whole}.{real} %{r}4, %{f}1;"
    yield "g", "cvt.f64.f32 %g4, %f1;"
    yield "f", "cvt.rn.f32.f64 %f4, %g1;"
    yield "f", "cvt.f32.f16 %f4, %h1;"
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        yield "f", f"cvt.{rounding}.f32.f32 %f4, %f1;"


def _floats():
    for f, kind in (("f", "f32"), ("g", "f64")):
        for name in ("add", "sub", "mul", "div.rn", "min", "max"):
            yield f, f"{name}.{kind} %{f}4, %{f}1, %{f}2;"
        yield f, f"neg.{kind} %{f}4, %{f}1;"
        yield f, f"abs.{kind} %{f}4, %{f}1;"
        yield f, f"sqrt.rn.{kind} %{f}4, %{f}1;"
        yield f, f"rcp.rn.{kind} %{f}4, %{f}1;"
        for relation in ("lt", "eq", "ne", "geu", "num", "nan"):
            yield "p", f"setp.{relation}.{kind} %p4, %{f}1, %{f}2;"
        yield f, f"selp.{kind} %{f}4, %{f}1, %{f}2, %p1;"
        yield f, f"copysign.{kind} %{f}4, %{f}1, %{f}2;"
    yield "f", "add.ftz.f32 %f4, %f1, %f2;"
    yield "f", "mul.ftz.sat.f32 %f4, %f1, %f2;"
    yield "g", "fma.rn.f64 %g4, %g1, %g2, %g3;"
    yield "f", "slct.f32.s32 %f4, %f1, %f2, %r3;"
