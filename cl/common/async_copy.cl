/* What NVIDIA's matrix engines from sm_80 on have beside their products, and the same in plain OpenCL C: copies of 16
 * bytes from global to local memory that do not wait, "cp.async" in NVIDIA's PTX ISA, and reads of the fragments of a
 * wave from there, "ldmatrix". For gemm_mma_multistage.cl, after mma.cl. Places in local memory are bytes from `ring`.
 * RING_SCRATCH declares what reads need in a kernel, which functions take as `__local int *ring_places`. */
#if ENGINE != 1
#error "no other engine has these"
#endif

#ifdef TFM_HAS_ENGINE
#define RING_SCRATCH __local int *const ring_places = 0;
/* The address space of local memory has addresses of 32 bits. */
static inline uint ring_address(__local const uint4 *ring, const int at) {
    return (uint)(size_t)ring + (uint)at;
}
/* 16 bytes; zeros where `there` is 0. */
static inline void ring_copy(__local uint4 *ring, const int at, __global const ushort *from, const int there) {
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"(ring_address(ring, at)), "l"(from), "r"(there ? 16 : 0)
                   : "memory");
}
/* The copies since the last call are a group. */
static inline void ring_group(void) {
    __asm volatile("cp.async.commit_group;" : : : "memory");
}
/* Until all groups of this item have arrived but the last `most` ones. */
#define ring_wait(most) __asm volatile("cp.async.wait_group %0;" : : "n"(most) : "memory")

/* Four matrices of 8 x 8 numbers, by all lanes of the wave together: lane l has the place of row l % 8 of matrix l / 8,
 * and gets of each matrix the numbers of row l / 4 in columns l % 4 * 2 and the next; if `turned`, of column l / 4 in
 * these rows. */
#define RING_READ(form)                                                                                                \
    __asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0, %1, %2, %3}, [%4];"                          \
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                                \
                   : "r"(ring_address(ring, at)))
static inline void ring_instruction(uint *to, __local const uint4 *ring, const int at, const int turned) {
    if (turned)
        RING_READ(".trans");
    else
        RING_READ("");
}
#define ring_read(to, ring, at, turned, lane) ring_instruction(to, ring, at, turned)

#else
#define RING_SCRATCH __local int ring_places[ITEMS];
#define RING_AT(ring, at) ((__local const char *)(ring) + (at))
static inline void ring_copy(__local uint4 *ring, const int at, __global const ushort *from, const int there) {
    *(__local uint4 *)RING_AT(ring, at) = there ? *(__global const uint4 *)from : (uint4)(0u);
}
#define ring_group()
#define ring_wait(most)
#define ring_read(to, ring, at, turned, lane) ring_emulate(to, ring, at, turned, lane, ring_places)
/* Inlined for certain, as tfm_group_reduce of the prelude is. */
static inline __attribute__((always_inline)) void ring_emulate(uint *to, __local const uint4 *ring, const int at,
                                                               const int turned, const int lane, __local int *places) {
    const int id = (int)get_local_id(0);
    __local const int *wave = places + (id - lane);
    barrier(CLK_LOCAL_MEM_FENCE); /* the last places have been read */
    places[id] = at;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 4; i++) {
        const int first = i * 8 + (turned ? lane % 4 * 2 : lane / 4), second = turned ? first + 1 : first;
        const int low = turned ? lane / 4 : lane % 4 * 2, high = turned ? low : low + 1;
        to[i] = ((__local const ushort *)RING_AT(ring, wave[first]))[low] |
                (uint)((__local const ushort *)RING_AT(ring, wave[second]))[high] << 16;
    }
}
#endif
