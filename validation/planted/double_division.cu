// double_division: fp64 divisions dominate; mended, a reciprocal is multiplied with.

struct __align__(16) Body {
    double x, y, z, mass;
};

// Gravity of some masses at each body; each component is divided by the cube of the distance.
extern "C" __global__ void double_division_1(const Body* __restrict__ bodies,
                                             const Body* __restrict__ masses, double* ax,
                                             double* ay, double* az, int count)
{
    __shared__ Body tile[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    const Body self = bodies[i];
    double x = 0, y = 0, z = 0;
    for (int j0 = 0; j0 < count; j0 += 128) {
        tile[threadIdx.x] = masses[j0 + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; ++j) {
            const Body b = tile[j];
            const double dx = b.x - self.x, dy = b.y - self.y, dz = b.z - self.z;
            const double r2 = dx * dx + dy * dy + dz * dz + 1e-4;
            const double r3 = r2 * sqrt(r2);
            x += b.mass * dx / r3;
            y += b.mass * dy / r3;
            z += b.mass * dz / r3;
        }
        __syncthreads();
    }
    ax[i] = x;
    ay[i] = y;
    az[i] = z;
}

// The same with one division per pair.
extern "C" __global__ void double_division_1_mended(const Body* __restrict__ bodies,
                                                    const Body* __restrict__ masses, double* ax,
                                                    double* ay, double* az, int count)
{
    __shared__ Body tile[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    const Body self = bodies[i];
    double x = 0, y = 0, z = 0;
    for (int j0 = 0; j0 < count; j0 += 128) {
        tile[threadIdx.x] = masses[j0 + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; ++j) {
            const Body b = tile[j];
            const double dx = b.x - self.x, dy = b.y - self.y, dz = b.z - self.z;
            const double r2 = dx * dx + dy * dy + dz * dz + 1e-4;
            const double f = b.mass / (r2 * sqrt(r2));
            x += f * dx;
            y += f * dy;
            z += f * dz;
        }
        __syncthreads();
    }
    ax[i] = x;
    ay[i] = y;
    az[i] = z;
}

#define STEPS 255

// Binomial tree of a call, one option per block, one node per thread; discounts by dividing.
extern "C" __global__ void double_division_2(const double* __restrict__ spot,
                                             const double* __restrict__ strike, double* price,
                                             double up, double growth)
{
    __shared__ double value[STEPS + 1];
    const int node = threadIdx.x;
    const double s = spot[blockIdx.x] * pow(up, 2.0 * node - STEPS);
    const double rise = (growth - 1.0 / up) / (up - 1.0 / up);
    double v = fmax(s - strike[blockIdx.x], 0.0);
    for (int step = STEPS; step > 0; --step) {
        value[node] = v;
        __syncthreads();
        if (node < step)
            v = rise * value[node + 1] / growth + (1.0 - rise) * v / growth;
        __syncthreads();
    }
    if (node == 0)
        price[blockIdx.x] = v;
}

// The same with the discount factor formed before the loop.
extern "C" __global__ void double_division_2_mended(const double* __restrict__ spot,
                                                    const double* __restrict__ strike,
                                                    double* price, double up, double growth)
{
    __shared__ double value[STEPS + 1];
    const int node = threadIdx.x;
    const double s = spot[blockIdx.x] * pow(up, 2.0 * node - STEPS);
    const double rise = (growth - 1.0 / up) / (up - 1.0 / up), discount = 1.0 / growth;
    double v = fmax(s - strike[blockIdx.x], 0.0);
    for (int step = STEPS; step > 0; --step) {
        value[node] = v;
        __syncthreads();
        if (node < step)
            v = rise * value[node + 1] * discount + (1.0 - rise) * v * discount;
        __syncthreads();
    }
    if (node == 0)
        price[blockIdx.x] = v;
}

// Nearest centroid of each point of four features, in units of each feature's deviation.
extern "C" __global__ void double_division_3(const double* __restrict__ points,
                                             const double* __restrict__ centroids,
                                             const double* __restrict__ deviation, int* nearest,
                                             int clusters, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x[4], s[4], best = 1e300;
    for (int d = 0; d < 4; ++d) {
        x[d] = points[d * n + i];
        s[d] = deviation[d] + 1.0;
    }
    int at = 0;
    for (int c = 0; c < clusters; ++c) {
        double sum = 0.0;
        for (int d = 0; d < 4; ++d) {
            const double t = (x[d] - centroids[4 * c + d]) / s[d];
            sum += t * t;
        }
        if (sum < best) {
            best = sum;
            at = c;
        }
    }
    nearest[i] = at;
}

// The same with the reciprocals of the deviations.
extern "C" __global__ void double_division_3_mended(const double* __restrict__ points,
                                                    const double* __restrict__ centroids,
                                                    const double* __restrict__ deviation,
                                                    int* nearest, int clusters, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x[4], s[4], best = 1e300;
    for (int d = 0; d < 4; ++d) {
        x[d] = points[d * n + i];
        s[d] = 1.0 / (deviation[d] + 1.0);
    }
    int at = 0;
    for (int c = 0; c < clusters; ++c) {
        double sum = 0.0;
        for (int d = 0; d < 4; ++d) {
            const double t = (x[d] - centroids[4 * c + d]) * s[d];
            sum += t * t;
        }
        if (sum < best) {
            best = sum;
            at = c;
        }
    }
    nearest[i] = at;
}
