// Accelerations of n bodies, n a multiple of 256; blocks of 256 threads.

__device__ __forceinline__ void interact(float4 here, float4 other, float& ax, float& ay,
                                         float& az)
{
    const float dx = other.x - here.x, dy = other.y - here.y, dz = other.z - here.z;
    const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-6f);
    const float scale = other.w * inverse * inverse * inverse;
    ax += scale * dx;
    ay += scale * dy;
    az += scale * dz;
}

extern "C" __global__ void nbody_global(const float4* __restrict__ bodies, float4* accelerations,
                                        int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 here = bodies[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
#pragma unroll 4
    for (int j = 0; j < n; ++j)
        interact(here, bodies[j], ax, ay, az);
    accelerations[i] = make_float4(ax, ay, az, 0.0f);
}

extern "C" __global__ void nbody_shared(const float4* __restrict__ bodies, float4* accelerations,
                                        int n)
{
    __shared__ float4 tile[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 here = bodies[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int first = 0; first < n; first += 256) {
        tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 256; ++j)
            interact(here, tile[j], ax, ay, az);
        __syncthreads();
    }
    accelerations[i] = make_float4(ax, ay, az, 0.0f);
}
