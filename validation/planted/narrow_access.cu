// narrow_access: neighbouring values are accessed one by one; mended, several at once.

// Binary mask of an 8-bit image, one byte per thread.
extern "C" __global__ void narrow_access_1(const unsigned char* __restrict__ image,
                                           unsigned char* mask, unsigned char threshold, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        mask[i] = image[i] > threshold ? 255 : 0;
}

// The same with 16 bytes per thread.
extern "C" __global__ void narrow_access_1_mended(const uint4* __restrict__ image, uint4* mask,
                                                  unsigned char threshold, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 16)
        return;
    const uint4 p = image[i];
    const unsigned t = threshold * 0x01010101u;
    mask[i] = make_uint4(__vcmpgtu4(p.x, t), __vcmpgtu4(p.y, t), __vcmpgtu4(p.z, t),
                         __vcmpgtu4(p.w, t));
}

#define FRAME 8

// A sample times a gain, saturated to 16 bits.
__device__ __forceinline__ short amplify(short sample, float gain)
{
    return (short)rintf(fminf(fmaxf(sample * gain, -32768.0f), 32767.0f));
}

// Gain of 16-bit audio, eight neighbouring samples per thread.
extern "C" __global__ void narrow_access_2(const short* __restrict__ in, short* out, float gain,
                                           int frames)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= frames)
        return;
#pragma unroll
    for (int k = 0; k < FRAME; ++k)
        out[i * FRAME + k] = amplify(in[i * FRAME + k], gain);
}

struct __align__(16) Frame {
    short samples[FRAME];
};

// The same with the eight samples loaded and stored together.
extern "C" __global__ void narrow_access_2_mended(const Frame* __restrict__ in, Frame* out,
                                                  float gain, int frames)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= frames)
        return;
    Frame frame = in[i];
#pragma unroll
    for (int k = 0; k < FRAME; ++k)
        frame.samples[k] = amplify(frame.samples[k], gain);
    out[i] = frame;
}

// Blends a layer over an image, both RGBA in float, one pixel per thread and one value per access.
extern "C" __global__ void narrow_access_3(const float* __restrict__ layer, float* image, int width,
                                           int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int at = 4 * (y * width + x);
    const float rest = 1.0f - layer[at + 3];
    for (int k = 0; k < 4; ++k)
        image[at + k] = layer[at + k] + rest * image[at + k];
}

// The same with float4.
extern "C" __global__ void narrow_access_3_mended(const float4* __restrict__ layer, float4* image,
                                                  int width, int height)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height)
        return;
    const int at = y * width + x;
    const float4 over = layer[at], under = image[at];
    const float rest = 1.0f - over.w;
    image[at] = make_float4(over.x + rest * under.x, over.y + rest * under.y,
                            over.z + rest * under.z, over.w + rest * under.w);
}
