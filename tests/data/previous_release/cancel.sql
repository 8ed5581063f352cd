-- cancel at 543ddd7
-- {"id": "uuid"}
SELECT answer, standing FROM {s}.cancel_rows(ARRAY[:id])
