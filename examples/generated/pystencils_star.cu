__global__ void kernel (double * RESTRICT const _data_dst, const double * RESTRICT const _data_src)
{
   const int64_t ctr_2 = 1LL + ((int64_t) blockIdx.z * (int64_t) blockDim.z + (int64_t) threadIdx.z);
   const int64_t ctr_1 = 1LL + ((int64_t) blockIdx.y * (int64_t) blockDim.y + (int64_t) threadIdx.y);
   const int64_t ctr_0 = 1LL + ((int64_t) blockIdx.x * (int64_t) blockDim.x + (int64_t) threadIdx.x);
   if(ctr_2 < 129LL && ctr_1 < 129LL && ctr_0 < 129LL)
   {
      _data_dst[ctr_0 + ctr_1 * 130LL + ctr_2 * 16900LL] = 0.1 * _data_src[ctr_0 + ctr_1 * 130LL + (ctr_2 + -1LL) * 16900LL] + 0.1 * _data_src[ctr_0 + 1LL + ctr_1 * 130LL + ctr_2 * 16900LL] + 0.1 * _data_src[ctr_0 + (ctr_1 + 1LL) * 130LL + ctr_2 * 16900LL] + 0.1 * _data_src[ctr_0 + (ctr_1 + -1LL) * 130LL + ctr_2 * 16900LL] + 0.1 * _data_src[ctr_0 + ctr_1 * 130LL + (ctr_2 + 1LL) * 16900LL] + 0.1 * _data_src[ctr_0 + -1LL + ctr_1 * 130LL + ctr_2 * 16900LL] + 0.4 * _data_src[ctr_0 + ctr_1 * 130LL + ctr_2 * 16900LL];
   }
}