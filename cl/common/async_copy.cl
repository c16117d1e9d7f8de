/* Asynchronous copies of NVIDIA sm_80 and later, and an emulation in plain OpenCL C: 16 bytes from global to local
 * memory ("cp.async" in NVIDIA's PTX ISA), and warp-wide loads of MMA fragments ("ldmatrix"). For
 * gemm_mma_multistage.cl, after mma.cl. Local-memory addresses are bytes from `ring`. LDMATRIX_SCRATCH declares the
 * loads' scratch in a kernel, passed to functions as `__local int *ldmatrix_offsets`. */
#if MMA_KIND != 1
#error "only NVIDIA sm_80 and later has asynchronous copies"
#endif

#ifdef TFM_HAS_MMA
#define LDMATRIX_SCRATCH __local int *const ldmatrix_offsets = 0;
/* Local (shared) memory has 32-bit addresses. */
static inline uint shared_address(__local const uint4 *ring, const int at) {
    return (uint)(size_t)ring + (uint)at;
}
/* 16 bytes; zeros if `there` is 0. */
static inline void cp_async(__local uint4 *ring, const int at, __global const ushort *from, const int there) {
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :
                   : "r"(shared_address(ring, at)), "l"(from), "r"(there ? 16 : 0)
                   : "memory");
}
/* Commits the copies since the last call as a group. */
static inline void cp_async_commit(void) {
    __asm volatile("cp.async.commit_group;" : : : "memory");
}
/* Waits until at most the last `most` groups of this item are pending. */
#define cp_async_wait(most) __asm volatile("cp.async.wait_group %0;" : : "n"(most) : "memory")

/* Four matrices of 8 x 8 numbers, loaded by all lanes of the warp together: lane l has the address of row l % 8 of
 * matrix l / 8, and gets of each matrix the numbers of row l / 4 in columns l % 4 * 2 and the next; if `transposed`, of
 * column l / 4 in these rows. */
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
/* Force-inlined, as tfm_group_reduce of the prelude. */
static inline __attribute__((always_inline)) void ldmatrix_emulate(uint *to, __local const uint4 *ring, const int at,
                                                                   const int transposed, const int lane,
                                                                   __local int *places) {
    const int id = (int)get_local_id(0);
    __local const int *wave = places + (id - lane);
    barrier(CLK_LOCAL_MEM_FENCE); /* the previous addresses have been read */
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
