DROP FUNCTION {s}.erased_user(text, text);
DROP FUNCTION {s}.erased_hash();
