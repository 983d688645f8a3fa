"""Small PDF files, for tests."""


def write_pdf(pages: list[list[str]], title: str = "", encrypt: bool = False) -> bytes:
    """A small PDF: one line of text below the other, in Helvetica."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        operators = " T* ".join(f"({line}) Tj" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {operators} ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    objects.append(f"<< /Title ({title}) >>")
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    key = "/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O (" + "o" * 32 + ") /U (" + "u" * 32
    extra = f"{key}) >> /ID [(x)(x)]" if encrypt else ""
    trailer = f"trailer << /Size {size} /Root 1 0 R /Info {size - 1} 0 R {extra} >>"
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}\nstartxref\n{len(out)}\n%%EOF"
    return out + end.encode()
