/* What NVIDIA's matrix engines from sm_80 on have beside their products, and the same in plain OpenCL C: copies of 16
 * bytes from global to local memory that do not wait, "cp.async" in NVIDIA's PTX ISA, and reads of the fragments of a
 * wave from there, "ldmatrix". For gemm_mma_multistage.cl, after mma.cl. Places in local memory are bytes from `ring`.
 * LDMATRIX_SCRATCH declares what reads need in a kernel, which functions take as `__local int *ldmatrix_offsets`. */
#if MMA_KIND != 1
#error "no other engine has these"
#endif

#ifdef TFM_HAS_MMA
#define LDMATRIX_SCRATCH __local int *const ldmatrix_offsets = 0;
/* The address space of local memory has addresses of 32 bits. */
static inline uint shared_address(__local const uint4 *ring, const int at) {
    return (uint)(size_t)ring + (uint)at;
}
/* 16 bytes; zeros where `there` is 0. */
static inline void cp_async(__local uint4 *ring, const int at, __global const ushort *from, const int there) {
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"(shared_address(ring, at)), "l"(from), "r"(there ? 16 : 0)
                   : "memory");
}
/* The copies since the last call are a group. */
static inline void cp_async_commit(void) {
    __asm volatile("cp.async.commit_group;" : : : "memory");
}
/* Until all groups of this item have arrived but the last `most` ones. */
#define cp_async_wait(most) __asm volatile("cp.async.wait_group %0;" : : "n"(most) : "memory")

/* Four matrices of 8 x 8 numbers, by all lanes of the wave together: lane l has the place of row l % 8 of matrix l / 8,
 * and gets of each matrix the numbers of row l / 4 in columns l % 4 * 2 and the next; if `transposed`, of column l / 4
 * in these rows. */
#define LDMATRIX(form)                                                                                                 \
    __asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0, %1, %2, %3}, [%4];"                          \
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                                \
                   : "r"(shared_address(ring, at)))
static inline void ldmatrix_instruction(uint *to, __local const uint4 *ring, const int at, const int transposed) {
    if (transposed)
        LDMATRIX(".trans");
    else
        LDMATRIX("");
}
#define ldmatrix_x4(to, ring, at, transposed, lane) ldmatrix_instruction(to, ring, at, transposed)

#else
#define LDMATRIX_SCRATCH __local int ldmatrix_offsets[ITEMS];
#define SHARED_AT(ring, at) ((__local const char *)(ring) + (at))
static inline void cp_async(__local uint4 *ring, const int at, __global const ushort *from, const int there) {
    *(__local uint4 *)SHARED_AT(ring, at) = there ? *(__global const uint4 *)from : (uint4)(0u);
}
#define cp_async_commit()
#define cp_async_wait(most)
#define ldmatrix_x4(to, ring, at, transposed, lane) ldmatrix_emulate(to, ring, at, transposed, lane, ldmatrix_offsets)
/* Inlined for certain, as tfm_group_reduce of the prelude is. */
static inline __attribute__((always_inline)) void ldmatrix_emulate(uint *to, __local const uint4 *ring, const int at,
                                                                   const int transposed, const int lane,
                                                                   __local int *places) {
    const int id = (int)get_local_id(0);
    __local const int *wave = places + (id - lane);
    barrier(CLK_LOCAL_MEM_FENCE); /* the last places have been read */
    places[id] = at;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 4; i++) {
        const int first = i * 8 + (transposed ? lane % 4 * 2 : lane / 4), second = transposed ? first + 1 : first;
        const int low = transposed ? lane / 4 : lane % 4 * 2, high = transposed ? low : low + 1;
        to[i] = ((__local const ushort *)SHARED_AT(ring, wave[first]))[low] |
                (uint)((__local const ushort *)SHARED_AT(ring, wave[second]))[high] << 16;
    }
}
#endif
