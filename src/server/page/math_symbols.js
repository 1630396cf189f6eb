// Symbols of TeX, by command.

const table = (text) => Object.fromEntries(text.trim().split(/\s+/).map((entry) => entry.split("=")));

// Identifiers: letters and constants.
export const COMMANDS = table(`
  alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ
  pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω
  Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω
  infty=∞ partial=∂ nabla=∇ hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ emptyset=∅ varnothing=∅ top=⊤ bot=⊥ angle=∠ triangle=△ degree=° square=□ blacksquare=■ checkmark=✓`);

export const OPERATORS = table(`
  times=× div=÷ cdot=⋅ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ otimes=⊗ odot=⊙ wedge=∧ land=∧ vee=∨ lor=∨ neg=¬ lnot=¬
  cap=∩ cup=∪ setminus=∖ in=∈ notin=∉ ni=∋ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ forall=∀ exists=∃ nexists=∄
  le=≤ leq=≤ leqslant=⩽ ge=≥ geq=≥ geqslant=⩾ ne=≠ neq=≠ ll=≪ gg=≫ approx=≈ equiv=≡ sim=∼ simeq=≃ cong=≅ propto=∝ doteq=≐
  to=→ rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ uparrow=↑ downarrow=↓ Rightarrow=⇒ implies=⟹ Leftarrow=⇐ iff=⟺ Leftrightarrow=⇔
  longrightarrow=⟶ longleftarrow=⟵ mapsto=↦ hookrightarrow=↪ rightharpoonup=⇀ perp=⊥ parallel=∥ mid=∣ nmid=∤ vdash=⊢ models=⊨ colon=:
  ldots=… dots=… cdots=⋯ vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ therefore=∴ because=∵ prec=≺ succ=≻ langle=⟨ rangle=⟩ lceil=⌈ rceil=⌉ lfloor=⌊ rfloor=⌋
  lvert=| rvert=| lVert=‖ rVert=‖ vert=| Vert=‖ lbrace={ rbrace=} lbrack=[ rbrack=] backslash=\\ prime=′ dagger=† ddagger=‡ cdotp=· triangleq=≜ coloneqq=≔`);

// Operators that grow in displayed formulas and may have limits.
export const LARGE = table(`
  sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀`);

export const FUNCTIONS = new Set(
  "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh exp log ln lg lim limsup liminf max min sup inf arg argmax argmin det dim ker gcd deg Pr mod bmod softmax hom".split(" "));
