/* Positions of tokens, with an optional padding token: PADDING_TOKEN of embedding.cl. */
#ifdef PADDING_TOKEN
#define PADDING_PARAMETERS , const long padding_id, const long counted, const long blank
#define HAS_POSITION(id) (has_positions && !(blank && (id) == padding_id))
#define POSITION_OF(row, id) position_of(TFM_AT(ids), row, steps, first, id, padding_id, counted)

static inline long position_of(__global const int *ids, const long row, const long steps, const long first,
                               const int id, const long padding_id, const long counted) {
    long position = first + row % steps;
    if (id == padding_id)
        return -1;
    for (long i = row - row % steps; counted && i < row; i++)
        position -= ids[i] == padding_id;
    return position;
}
#else
#define PADDING_PARAMETERS
#define HAS_POSITION(id) has_positions
#define POSITION_OF(row, id) (first + (row) % steps)
#endif
