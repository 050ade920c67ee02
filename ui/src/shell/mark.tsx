/** The sign of the product: a rowlock that holds an oar. */
export function Mark({ size = 22 }: { size?: number }) {
  return (
    <svg viewBox="0 0 32 32" width={size} height={size} aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0a6670" />
      <path d="M9 8v7a7 7 0 0 0 14 0V8M16 22v5" fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
      <path d="M5 19 27 11" stroke="#ffc46b" strokeWidth="3" strokeLinecap="round" />
    </svg>
  );
}
