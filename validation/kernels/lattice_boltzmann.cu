// One time step of a lattice-Boltzmann fluid, D3Q19 with one relaxation time, in a periodic box.
//
// The populations stream in place: a step pulls half of the directions from the neighbours and
// pushes them back where the next step, of the other parity, will look for them. So a cell moves
// 19 floats in, 19 out, and its flag: 153 bytes.

#define DIRECTIONS 19

__device__ constexpr int cx[] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 0, 0, 1, -1, 1, -1, 0, 0};
__device__ constexpr int cy[] = {0, 0, 0, 1, -1, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 1, -1};
__device__ constexpr int cz[] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 1, -1, 1, -1, 0, 0, -1, 1, -1, 1};

__device__ __forceinline__ int wrapped(int at, int step, int n)
{
    const int next = at + step;
    return next < 0 ? next + n : next >= n ? next - n : next;
}

// Relaxes towards the equilibrium of the cell's density and velocity.
__device__ __forceinline__ void collide(float (&f)[DIRECTIONS], float omega)
{
    float density = f[0], ux = 0, uy = 0, uz = 0;
#pragma unroll
    for (int i = 1; i < DIRECTIONS; ++i) {
        density += f[i];
        ux += cx[i] * f[i];
        uy += cy[i] * f[i];
        uz += cz[i] * f[i];
    }
    const float inverse = 1.0f / density;
    ux *= inverse;
    uy *= inverse;
    uz *= inverse;
    const float square = 1.5f * (ux * ux + uy * uy + uz * uz);
#pragma unroll
    for (int i = 0; i < DIRECTIONS; ++i) {
        const float weight = i == 0 ? 1.0f / 3 : i < 7 ? 1.0f / 18 : 1.0f / 36;
        const float along = 3.0f * (cx[i] * ux + cy[i] * uy + cz[i] * uz);
        const float rest = weight * density * (1.0f + along * (1.0f + 0.5f * along) - square);
        f[i] += omega * (rest - f[i]);
    }
}

template <bool odd>
__device__ __forceinline__ void step(float* f, const unsigned char* flags, float omega, int nx,
                                     int ny, int nz)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x, cells = nx * ny * nz;
    if (n >= cells)
        return;
    const int x = n % nx, y = n / nx % ny, z = n / (nx * ny);
    int there[DIRECTIONS];
    float here[DIRECTIONS];
    here[0] = f[n];
#pragma unroll
    for (int i = 1; i < DIRECTIONS; i += 2) {
        there[i] = wrapped(x, cx[i], nx) + nx * (wrapped(y, cy[i], ny) + ny * wrapped(z, cz[i], nz));
        here[i] = f[(size_t)(odd ? i : i + 1) * cells + n];
        here[i + 1] = f[(size_t)(odd ? i + 1 : i) * cells + there[i]];
    }
    collide(here, flags[n] ? 0.0f : omega);
    f[n] = here[0];
#pragma unroll
    for (int i = 1; i < DIRECTIONS; i += 2) {
        f[(size_t)(odd ? i + 1 : i) * cells + there[i]] = here[i];
        f[(size_t)(odd ? i : i + 1) * cells + n] = here[i + 1];
    }
}

extern "C" __global__ void lattice_boltzmann(float* f, const unsigned char* flags, float omega,
                                             int nx, int ny, int nz)
{
    step<false>(f, flags, omega, nx, ny, nz);
}
