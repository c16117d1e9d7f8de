/* One launch for several launches of work-groups of one item, on PoCL (lib/dev/launch/megakernel.c).
 *
 * The host writes before this text, for each kernel i, the declaration of its body tfm_body_<i>, and TFM_RUN_BODIES, a
 * case for each. Bodies are compiled and linked separately. A record is a sequence of words:
 *
 *     [0]      two counters of 32 bits: items taken, items done; in a separate cache line
 *     [8]      the body; [9] words up to the next record
 *     [10..12] the global size
 *     [13..]   the arguments: buffers as addresses
 *
 * Work-groups take items of a record by counting up, and go on when all its items are done. */
#define TAKEN_AND_DONE 0
#define BODY 8
#define LENGTH 9
#define SIZES 10
#define ARGUMENTS 13

/* A work-group that has waited this often leaves: the others, which do not depend on it, do the rest. So a thread that
 * the system has interrupted delays only its own item, and no processor is kept busy waiting for it. */
#define MAX_WAITS 50000

static inline void wait_briefly(void) {
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Grid: a work-group for each compute unit. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void megakernel(__global ulong *records, const long first,
                                                                        const long count) {
    __global ulong *record = records + first;
    for (long r = 0; r < count; r++, record += record[LENGTH]) {
        volatile __global uint *taken = (volatile __global uint *)(record + TAKEN_AND_DONE), *done = taken + 1;
        const size_t n0 = record[SIZES], n1 = record[SIZES + 1], n2 = record[SIZES + 2];
        const uint items = (uint)(n0 * n1 * n2);
        uint mine = 0, item;
        while ((item = atomic_inc(taken)) < items) {
            const size_t id0 = item % n0, id1 = item / n0 % n1, id2 = item / n0 / n1;
            switch ((int)record[BODY]) { TFM_RUN_BODIES(record + ARGUMENTS, id0, id1, id2, n0, n1, n2) }
            mine++;
        }
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        if (mine > 0)
            atomic_add(done, mine);
        for (int waits = 0; *done != items; waits++) {
            if (waits == MAX_WAITS)
                return;
            wait_briefly();
        }
        mem_fence(CLK_GLOBAL_MEM_FENCE); /* what the others wrote is visible from here on */
    }
}

/* The address of a buffer, which the host compares with that of its mapping. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void megakernel_address(__global ulong *records) {
    records[0] = (ulong)records;
}
